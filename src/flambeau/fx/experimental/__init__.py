"""`flambeau.fx.experimental`: networks made simpler for prediction (`optimization`)."""
