# SPDX-License-Identifier: MIT
"""Trains torchvision's ResNet-18 on batches of images that lie in host memory."""

import app


def main():
    chosen = app.options(__doc__, images=768, batch=128, size=224, steps=3)
    torchvision = app.packages("torchvision")
    torch, device = app.torch_for(chosen)
    images = torch.arange(chosen.images * 3 * chosen.size * chosen.size, dtype=torch.int32) \
        .remainder_(251).to(torch.float32).div_(251) \
        .view(chosen.images, 3, chosen.size, chosen.size)
    labels = torch.arange(chosen.images) % 1000
    model = torchvision.models.resnet18().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    criterion = torch.nn.CrossEntropyLoss()
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(images, labels),
                                         batch_size=chosen.batch)

    def epoch(_):
        for batch, wanted in loader:
            optimizer.zero_grad(set_to_none=True)
            loss = criterion(model(batch.to(device)), wanted.to(device))
            loss.backward()
            optimizer.step()
        return loss

    seconds, loss = app.timed(chosen.steps, app.waiter(torch, device), epoch)
    app.say(app.digest(loss, *model.parameters()), seconds)


if __name__ == "__main__":
    main()
