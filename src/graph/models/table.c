/* All networks. A new one is a file beside this one and a line here. */
#include "graph/model.h"

extern const struct model model_lenet5, model_alexnet, model_vgg16, model_resnet;
extern const struct model model_gpt2, model_bert48;

const struct model *const model_table[] = {
    &model_lenet5,
    &model_alexnet,
    &model_vgg16,
    &model_resnet,
    &model_gpt2,
    &model_bert48,
    NULL,
};
