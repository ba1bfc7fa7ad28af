/* The table of instructions, from opcodes.def; the printer, the parser, the verifier and the interpreter all work from it. */
#include <string.h>

#include "program/program.h"

const struct opcode_info opcode_table[OPCODE_COUNT] = {
#define OPCODE(NAME, word, kind, letters, what)                                                                                \
    [OP_##NAME] = {.text = word, .operands = letters, .summary = what, .action = ACTION_##kind},
#include "program/opcodes.def"
#undef OPCODE
};

bool instruction_computes(const struct instruction *instruction) {
    enum action action = opcode_table[instruction->op].action;
    return action != ACTION_SEND && action != ACTION_RECEIVE && action != ACTION_REDUCE;
}

bool instruction_moves_weights(const struct instruction *instruction) {
    return instruction->op == OP_SW || instruction->op == OP_RW;
}

enum block_kind operand_block(char letter) {
    static const char letters[] = "swiogd";
    const char *found = letter ? strchr(letters, letter) : NULL;
    return found ? (enum block_kind)(found - letters) : BLOCK_KINDS;
}
