/*
 * Rows of COLUMNS numbers, number[0] apart, to rows number[1] apart, perhaps of another type. A thread has four columns (FOURS
 * such groups make a row); they are one access where rows begin at a multiple of four numbers.
 */
KERNEL(repitch) {
    const int64_t from = a.number[0], to = a.number[1];
    EACH(i, a.count) {
        const int64_t row = i / FOURS;
        const int column = (int)(i % FOURS) * 4, end = COLUMNS - column < 4 ? COLUMNS - column : 4;
        float x[4] = {0, 0, 0, 0};
        if (end == 4 && from % 4 == 0)
            GET4(X0, a.input[0].value, row * from + column, row * from + column + 4, x);
        else
            for (int j = 0; j < end; j++) x[j] = GET(X0, a.input[0].value, row * from + column + j);
        if (end == 4 && to % 4 == 0)
            PUT4(Y, a.output, row * to + column, row * to + column + 4, x);
        else
            for (int j = 0; j < end; j++) PUT(Y, a.output, row * to + column + j, x[j]);
    }
}
