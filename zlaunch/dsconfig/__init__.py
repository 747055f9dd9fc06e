"""Pure: recipes, batch arithmetic and rendering of a ds_config."""
