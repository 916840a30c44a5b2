"""`flambeau.fx.experimental`: networks made simpler for prediction (`optimization`), and questions about sizes (`symbolic_shapes`)."""
