# SPDX-License-Identifier: MIT
"""Reads a prompt with llama.cpp (llama-cpp-python), some layers on the GPU, the rest mapped."""

import app
from weights_file import kept_file

VOCABULARY = 1024


def write_model(gguf, numpy, path, chosen):
    """A Llama with random weights of 16 bits, and no words."""
    width, inner, heads = chosen.width, chosen.width * 8 // 3 // 256 * 256, chosen.width // 128
    block = numpy.random.default_rng(0).standard_normal(4 << 20, dtype=numpy.float32)
    block = (block / width ** 0.5).astype(numpy.float16)

    def weights(*shape):
        return numpy.resize(numpy.roll(block, len(writer.tensors[0])), shape)

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(chosen.layers)
    writer.add_context_length(chosen.tokens)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(VOCABULARY)
    writer.add_tokenizer_model("none")
    ones = numpy.ones(width, dtype=numpy.float32)
    writer.add_tensor("token_embd.weight", weights(VOCABULARY, width))
    writer.add_tensor("output_norm.weight", ones)
    writer.add_tensor("output.weight", weights(VOCABULARY, width))
    for layer in range(chosen.layers):
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", ones)
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", weights(width, width))
        for name in ("ffn_gate", "ffn_up"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", weights(inner, width))
        writer.add_tensor(f"blk.{layer}.ffn_down.weight", weights(width, inner))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def open_model(api, path, chosen):
    """The model, and what reads prompts with it."""
    settings = api.llama_model_default_params()
    settings.n_gpu_layers = chosen.gpu_layers if chosen.device == "cuda" else 0
    model = api.llama_model_load_from_file(path.encode(), settings)
    if not model:
        app.skip("llama.cpp can't load the model")
    settings = api.llama_context_default_params()
    settings.n_ctx = settings.n_batch = settings.n_ubatch = chosen.tokens
    settings.n_threads = settings.n_threads_batch = 4
    return model, api.llama_init_from_model(model, settings)


def main():
    chosen = app.options(__doc__, layers=16, width=4096, gpu_layers=8, tokens=512, steps=6)
    api, gguf, numpy = app.packages("llama_cpp.llama_cpp", "gguf", "numpy")
    quiet = api.llama_log_callback(lambda *_: None)
    api.llama_log_set(quiet, None)
    api.llama_backend_init()
    if chosen.device == "cuda" and not api.llama_supports_gpu_offload():
        app.skip("this llama.cpp has no GPU")
    path = kept_file(f"llama-{chosen.layers}-{chosen.width}-{chosen.tokens}.gguf",
                     lambda part: write_model(gguf, numpy, part, chosen))
    model, context = open_model(api, path, chosen)
    prompt = (api.llama_token * chosen.tokens)(*(7 * at % VOCABULARY
                                                 for at in range(chosen.tokens)))

    def read_prompt(_):
        api.llama_memory_clear(api.llama_get_memory(context), True)
        if api.llama_decode(context, api.llama_batch_get_one(prompt, chosen.tokens)):
            app.skip("llama.cpp can't read the prompt")
        found = api.llama_get_logits_ith(context, -1)
        return numpy.ctypeslib.as_array(found, (VOCABULARY,)).copy()

    seconds, logits = app.timed(chosen.steps, lambda: api.llama_synchronize(context), read_prompt)
    app.say(app.digest(logits), seconds)
    api.llama_free(context)
    api.llama_model_free(model)


if __name__ == "__main__":
    main()
