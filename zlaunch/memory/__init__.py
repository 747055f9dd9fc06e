"""Pure: how much memory a model and a ds_config take, term by term."""
