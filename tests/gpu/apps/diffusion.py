# SPDX-License-Identifier: MIT
"""Draws with a random Stable Diffusion whose weights diffusers keeps in host memory.

Each step of a drawing brings all weights of the network to the GPU, layer by layer.
"""

import app
import random_model


def main():
    chosen = app.options(__doc__, drawings=4, steps=10)
    diffusers = app.packages("diffusers")
    torch, device = app.torch_for(chosen)
    network = random_model.on_host(
        torch, lambda: diffusers.UNet2DConditionModel(cross_attention_dim=768), torch.bfloat16)
    pipe = diffusers.StableDiffusionPipeline(
        vae=None, text_encoder=None, tokenizer=None, unet=network,
        scheduler=diffusers.DDIMScheduler(steps_offset=1, clip_sample=False),
        safety_checker=None, feature_extractor=None, requires_safety_checker=False)
    pipe.set_progress_bar_config(disable=True)
    pipe.enable_sequential_cpu_offload(device=device)
    words, noise = torch.randn(1, 77, 768), torch.randn(1, 4, 64, 64)
    inputs = {"prompt_embeds": words, "negative_prompt_embeds": -words, "latents": noise}
    inputs = {name: value.to(device, torch.bfloat16) for name, value in inputs.items()}

    def draw(_):
        return pipe(**inputs, height=512, width=512, num_inference_steps=chosen.steps,
                    output_type="latent").images

    seconds, drawn = app.timed(chosen.drawings, app.waiter(torch, device), draw)
    if not torch.isfinite(drawn).all():
        raise SystemExit("diffusion: the drawing is not finite")
    app.say(app.digest(drawn), seconds)


if __name__ == "__main__":
    main()
