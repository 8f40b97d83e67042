// Optimisers, schedules, clipping, checkpoints.
#pragma once

#include <heddle/optim/checkpoint.h>
#include <heddle/optim/clip.h>
#include <heddle/optim/optimizer.h>
#include <heddle/optim/rules.h>
#include <heddle/optim/schedule.h>
