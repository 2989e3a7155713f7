"""The task `accept`: runs the jobs of the key `acceptance`, judges their figures, and keeps a history of them."""
