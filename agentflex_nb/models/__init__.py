"""Chat models: anything that turns a request into a stream of deltas."""
