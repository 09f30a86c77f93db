"""Reading of ONNX files: the model, its weights, and the schemas of its operators."""
