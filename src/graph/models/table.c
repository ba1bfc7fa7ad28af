/* All networks. To add one, add a file to this directory and a line here. */
#include "graph/model.h"

extern const struct model model_lenet5, model_alexnet, model_vgg16, model_vgg19, model_resnet, model_resnet50, model_resnet101,
    model_googlenet, model_inception_v3, model_densenet121, model_residual_lstm, model_gnmt8, model_gnmt16, model_gnmt_l,
    model_gpt2, model_bert48;

const struct model *const model_table[] = {
    &model_lenet5,
    &model_alexnet,
    &model_vgg16,
    &model_vgg19,
    &model_resnet,
    &model_resnet50,
    &model_resnet101,
    &model_googlenet,
    &model_inception_v3,
    &model_densenet121,
    &model_residual_lstm,
    &model_gnmt8,
    &model_gnmt16,
    &model_gnmt_l,
    &model_gpt2,
    &model_bert48,
    NULL,
};
