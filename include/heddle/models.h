// Models: architectures whose tensors have the names that published files give them.
#pragma once

#include <heddle/models/gpt2.h>
#include <heddle/models/resnet.h>
