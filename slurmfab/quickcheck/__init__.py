"""Small jobs that show within seconds whether a cluster does what people want of it: `fab quickcheck`."""
