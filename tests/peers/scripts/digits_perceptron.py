"""A perceptron that reads digits of 8 x 8 points. An ordinary PyTorch program."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from sklearn.datasets import load_digits


class Perceptron(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(64, hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, 10),
        )

    def forward(self, x):
        return self.layers(x.view(x.size(0), -1))


def digits():
    images, labels = load_digits(return_X_y=True)
    x = torch.tensor(images, dtype=torch.float32).div(16).view(-1, 1, 8, 8)
    y = torch.tensor(labels, dtype=torch.long)
    return TensorDataset(x[:1500], y[:1500]), TensorDataset(x[1500:], y[1500:])


def train(model, dataset, epochs=2, shuffle=True):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model.to(device).train()
    loader = DataLoader(dataset, batch_size=100, shuffle=shuffle)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    losses = []
    for epoch in range(epochs):
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


@torch.no_grad()
def accuracy(model, dataset):
    model.eval()
    right = 0
    for x, y in DataLoader(dataset, batch_size=100):
        _, guess = torch.max(model(x), 1)
        right += (guess == y).sum().item()
    return right / len(dataset)


def main():
    torch.manual_seed(0)
    training, held_out = digits()
    model = Perceptron()
    print(f"{sum(p.numel() for p in model.parameters())} parameters")
    losses = train(model, training, epochs=10)
    print(f"loss {losses[-1]:.3f}, accuracy {accuracy(model, held_out):.3f}")


if __name__ == "__main__":
    main()
