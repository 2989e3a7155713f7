"""`fab report`: one HTML page about a cluster, which needs no network and no server."""
