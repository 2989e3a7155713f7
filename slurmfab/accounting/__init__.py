"""What a cluster with an accounting database needs beside its phases: judged, read and exported here."""
