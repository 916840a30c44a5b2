"""What reads or changes graphs: `shape_prop` notes shapes, `split_module` makes parts of a module."""
