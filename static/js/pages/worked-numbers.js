/** Figures that can be checked by hand, and what the description they come from makes of them. */
export const figures = {
 "source": "The figures are those of the article “Inside an LLM: From Your Prompt to Its Reply”; its simplified figures stand beside what the operation gives.",
 "dot_products": [{"q": [1, 2], "k": [1, 1], "expected": 3}, {"q": [1, 2], "k": [-1, 0], "expected": -1}, {"q": [1, 2], "k": [2, 3], "expected": 8}],
 "scaling": {"d_k": 2, "scores": [3, -1], "expected": [2.12, -0.71], "tolerance": 0.01},
 "causal_mask": {"tokens": ["Tell", " me", " a", " political", " joke"], "allowed_keys_per_query": [[0], [0, 1], [0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3, 4]]},
 "attention_softmax": {"scores": [0.2, -0.1, 0.05, 2.12, 0.7], "expected": [0.0903, 0.0669, 0.0777, 0.6161, 0.1489], "tolerance": 5e-05, "illustrated": [0.08, 0.06, 0.07, 0.59, 0.2]},
 "weighted_sum": {"values": [[0.2, 0.1], [-0.1, 0.3], [0.0, 0.1], [0.8, 0.6], [0.5, -0.2]], "with_illustrated_weights": {"weights": [0.08, 0.06, 0.07, 0.59, 0.2], "expected": [0.582, 0.347], "tolerance": 0.0005}, "with_softmax_weights": {"expected": [0.5787, 0.3768], "tolerance": 0.0001}},
 "logits_softmax": {"tokens": ["Why", "Here", "I", "Politics", "Banana"], "logits": [8.2, 6.1, 4.8, 3.5, -1.2], "temperature": 1.0, "expected": [0.8584, 0.1051, 0.0286, 0.0078, 7.1e-05], "tolerance": 5e-05},
 "next_token_distribution_illustrated": {"Why": 0.54, "Here": 0.18, "I": 0.09, "Politics": 0.05, "all others": 0.14},
 "cosine": {"a": [1, 2], "b": [2, 3], "dot": 8, "expected": 0.992, "tolerance": 0.0005},
 "embedding_lookup": {"table": [[0.2, -0.1, 0.7, 0.4], [-0.5, 0.8, 0.1, 0.3], [0.6, 0.2, -0.4, 0.9], [0.1, 0.5, 0.6, -0.2], [-0.3, 0.7, 0.2, 0.5], [0.8, -0.4, 0.3, 0.1]], "row": 4, "expected": [-0.3, 0.7, 0.2, 0.5]}
};
