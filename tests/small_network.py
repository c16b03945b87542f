"""The sizes of a network that trains and compiles in seconds."""

SIZES = {
  "vocab_size": 64,
  "hidden_size": 32,
  "num_hidden_layers": 1,
  "num_attention_heads": 2,
  "intermediate_size": 32,
  "max_position_embeddings": 64,
}
