"""What appears under a cell. The only room that knows anywidget, ipywidgets and IPython."""
