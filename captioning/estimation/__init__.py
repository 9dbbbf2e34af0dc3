"""How good estimators of hard attention's gradient are, on a model: bias, variance, signal to noise, and cost."""
