// Modules, layers and losses.
#pragma once

#include <heddle/nn/conv.h>
#include <heddle/nn/init.h>
#include <heddle/nn/layers.h>
#include <heddle/nn/loss.h>
#include <heddle/nn/module.h>
#include <heddle/nn/sequential.h>
#include <heddle/nn/visitor.h>
