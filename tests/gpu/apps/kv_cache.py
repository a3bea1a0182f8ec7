# SPDX-License-Identifier: MIT
"""Texts of a random Llama on the GPU, generated with a cache of keys and values that transformers
keeps in host memory but for the layer at work.
"""

import app


def main():
    chosen = app.options(__doc__, layers=16, hidden=2048, batch=8, prompt=2048, tokens=8, steps=3)
    transformers = app.packages("transformers")
    torch, device = app.torch_for(chosen)
    config = transformers.LlamaConfig(
        hidden_size=chosen.hidden, intermediate_size=chosen.hidden * 11 // 4,
        num_hidden_layers=chosen.layers, num_attention_heads=max(chosen.hidden // 64, 1),
        vocab_size=8192, bos_token_id=None, eos_token_id=None, pad_token_id=0)
    model = transformers.LlamaForCausalLM(config).to(torch.bfloat16).to(device).eval()
    ids = torch.randint(1, 8000, (chosen.batch, chosen.prompt),
                        generator=torch.Generator().manual_seed(3)).to(device)
    # The cache copies on a stream of its own, which the CPU has not.
    cache = {"cache_implementation": "offloaded"} if device.type == "cuda" else {}

    def generate(_):
        return model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False,
                              max_new_tokens=chosen.tokens, min_new_tokens=chosen.tokens, **cache)

    with torch.no_grad():
        seconds, found = app.timed(chosen.steps, app.waiter(torch, device), generate)
    app.say(app.digest(found), seconds)


if __name__ == "__main__":
    main()
