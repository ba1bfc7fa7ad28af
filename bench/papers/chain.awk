# A profile as a chain of numbers (docs/formats.md): layers are joined until only one value, or what one layer made, crosses the
# cut behind them. This is the "classic linearization" of PipeDream and MadPipe: a residual block, an inception module and a
# densely connected layer with its concatenation become one layer each, which keeps what it was given. -v join=N: N of these become one.
function put() {
    line[++lines] = sprintf("%.6f %.6f %.0f %.0f %.0f", 1e3 * forward, 1e3 * backward, parameters, output, output)
    forward = backward = parameters = cuts = 0
}
BEGIN { if (!join) join = 1 }
{ gsub(/[ ",]/, ""); split($0, field, ":"); number = field[2] + 0 }
field[1] == "forward_s" { forward += number }
field[1] == "backward_input_s" || field[1] == "backward_weight_s" { backward += number }
field[1] == "parameter_bytes" { parameters += number }
field[1] == "output_bytes" { output = number }
field[1] == "value_bytes" { value = number }
field[1] == "workspace_bytes" && output == value && ++cuts == join { put() }
END {
    if (cuts) put()
    print lines, 0
    for (i = 1; i <= lines; i++) print line[i]
}
