/* All networks. A new one is a file beside this one and a line here. */
#include "graph/model.h"

extern const struct model model_lenet5, model_alexnet, model_vgg16, model_resnet, model_vgg19, model_resnet50, model_resnet101,
    model_googlenet, model_inception_v3, model_densenet121;

const struct model *const model_table[] = {
    &model_lenet5,    &model_alexnet,   &model_vgg16,        &model_resnet,      &model_vgg19, &model_resnet50,
    &model_resnet101, &model_googlenet, &model_inception_v3, &model_densenet121, NULL,
};
