"""A small convnet with batch normalisation, trained with momentum and a rate that falls. An ordinary PyTorch program."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Shapes(Dataset):
    """Pictures of a bar: standing, lying, or both."""

    def __init__(self, count, seed=0):
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(0, 3, count)
        self.images = 0.3 * rng.standard_normal((count, 1, 16, 16)).astype(np.float32)
        for image, label in zip(self.images, self.labels):
            if label != 1:
                image[0, :, rng.integers(2, 14)] += 1
            if label != 0:
                image[0, rng.integers(2, 14), :] += 1

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return torch.from_numpy(self.images[index]), torch.tensor(self.labels[index])


class Block(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel_size=3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, x):
        return F.max_pool2d(F.relu(self.norm(self.conv(x)), inplace=True), 2)


class ConvNet(nn.Module):
    def __init__(self, classes=3):
        super().__init__()
        self.features = nn.Sequential(Block(1, 8), Block(8, 16))
        self.pool = nn.AdaptiveAvgPool2d((2, 2))
        self.dropout = nn.Dropout(p=0.1)
        self.classifier = nn.Linear(16 * 2 * 2, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(module, nn.BatchNorm2d):
                nn.init.constant_(module.weight, 1)
                nn.init.constant_(module.bias, 0)

    def forward(self, x):
        x = self.pool(self.features(x))
        x = torch.flatten(x, 1)
        return self.classifier(self.dropout(x))


def train(model, dataset, epochs=2, shuffle=True):
    loader = DataLoader(dataset, batch_size=32, shuffle=shuffle, drop_last=True, num_workers=0)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    model.train()
    losses = []
    for epoch in range(epochs):
        total = 0.0
        for images, labels in loader:
            optimizer.zero_grad(set_to_none=True)
            loss = criterion(model(images), labels)
            loss.backward()
            optimizer.step()
            total += loss.item() * images.size(0)
            losses.append(loss.item())
        scheduler.step()
        print(f"epoch {epoch}: loss {total / len(dataset):.4f}, next rate {optimizer.param_groups[0]['lr']:.4f}")
    return losses


def accuracy(model, dataset):
    model.eval()
    right = 0
    with torch.no_grad():
        for images, labels in DataLoader(dataset, batch_size=64):
            right += model(images).argmax(dim=1).eq(labels.view(-1)).sum().item()
    return right / len(dataset)


def main():
    torch.manual_seed(0)
    model = ConvNet()
    train(model, Shapes(512), epochs=3)
    print(f"accuracy {accuracy(model, Shapes(256, seed=1)):.3f}")
    torch.save(model.state_dict(), "convnet.pt")
    model.load_state_dict(torch.load("convnet.pt"))


if __name__ == "__main__":
    main()
