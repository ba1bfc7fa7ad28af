#!/bin/sh
# How much smaller learning rates must be if gradients are s updates old. On a quadratic of curvature c, gradient descent with
# momentum
#
#   u <- momentum u + lr gradient,   w <- w - u,   gradient = c w', where w' is the weights of s updates ago ("old"), or these as the
#                                                  papers' rule predicts them, s updates ahead: w' - s u' ("predicted")
#
# converges below a limit of lr c, which bisection finds. `sync` is s = 0. No data is needed.
#   bench/learning/stability.sh
awk '
function grows(x, momentum, s, ahead,   t, i, w, u, top) {
    for (i = 0; i <= s; i++) { w[i] = 1; u[i] = 0 }
    for (t = s + 1; t < 4000; t++) {
        u[t] = momentum * u[t - 1] + x * (w[t - 1 - s] - ahead * u[t - 1 - s])
        w[t] = w[t - 1] - u[t]
        if (w[t] > 1e6 || w[t] < -1e6) return 1
    }
    for (i = 1; i <= 40; i++) if (w[t - i] > 1 || w[t - i] < -1) return 1
    return 0
}
function limit(momentum, s, ahead,   low, high, middle, i) {
    low = 1e-4; high = 10
    for (i = 0; i < 24; i++) {
        middle = sqrt(low * high)
        if (grows(middle, momentum, s, ahead)) high = middle; else low = middle
    }
    return low
}
BEGIN {
    print "largest lr times curvature at which momentum descent on a quadratic converges\n"
    print "momentum   s       old   predicted"
    for (m = 0.9; m >= 0; m -= 0.9) for (s = 0; s <= 3; s++)
        printf "%8.1f %3d %9.4f %11.4f\n", m, s, limit(m, s, 0), limit(m, s, s)
}'
