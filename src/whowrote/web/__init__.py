"""A local page and an HTTP interface over one model: parse, call one typed function, render."""
