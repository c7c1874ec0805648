"""Questions to the archive, answered as DataFrames. The only room that knows pandas."""
