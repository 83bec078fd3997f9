/* The rows, as a template: included once for each arm, so that its calls are inlined as in a program
 * that uses it. C and C++. The includer defines
 *   ARM               the arm's name, for the names of functions
 *   arm_begin(size)   gets ready; objects will be of `size` bytes, 0: mixed
 *   arm_end()
 *   arm_alloc(size), arm_node(size)  aligned to 16, to 8 where the arm can
 *   ARM_RESETS, arm_reset()          it can give all back at once
 *   ARM_FREES, arm_free(p, size)     it can free one
 *   arm_rest()        what it does, if anything, when there is nothing to do
 * and NODES_ONLY if all its objects are of one size. No include guard: that is the point. */

#define JOIN2(a, b) a##_##b
#define JOIN(a, b) JOIN2(a, b)
#define F(name) JOIN(ARM, name)

/* A list that holds every object: none needs a place elsewhere. */
struct F(link) {
    struct F(link) * next;
};

static void F(release)(struct F(link) * list, size_t size)
{
    if (ARM_RESETS) {
        arm_reset();
        return;
    }
    while (list) {
        struct F(link) *next = list->next;
        arm_free(list, size);
        list = next;
    }
}

static struct F(link) * F(chain)(size_t count, size_t size)
{
    struct F(link) *list = NULL;
    for (size_t i = 0; i < count; i++) {
        struct F(link) *object = (struct F(link) *)must(arm_alloc(size));
        object->next = list;
        ((char *)object)[size - 1] = 1;
        list = object;
    }
    return list;
}

#ifndef NODES_ONLY
static void F(requests)(bool small)
{
    static uint32_t size[MIXED]; /* not on the stack, whose place differs from run to run */
    static void *objects[MIXED];
    double spent = 0;
    arm_begin(0);
    for (unsigned list = 0; list < MIXED_LISTS; list++) {
        double start = 0;
        mixed_sizes(size, list, small);
        look();
        for (size_t cycle = 0; cycle < sizes.cycles + sizes.cycles / 10; cycle++) {
            if (cycle == sizes.cycles / 10) /* warm */
                start = now();
            for (size_t i = 0; i < MIXED; i++) {
                uint64_t *p = (uint64_t *)must(arm_alloc(size[i]));
                *p = i;
                if (!ARM_RESETS)
                    objects[i] = p;
            }
            if (ARM_RESETS)
                arm_reset();
            for (size_t i = 0; !ARM_RESETS && i < MIXED; i++) {
                size_t at = list % 2 ? MIXED - 1 - i : i; /* newest first, or oldest first */
                arm_free(objects[at], size[at]);
            }
        }
        spent += now() - start;
    }
    put("ns", spent * 1e9 / (double)(MIXED_LISTS * sizes.cycles * MIXED));
    arm_end();
}

static void F(mixed)(void)
{
    F(requests)(false);
}

static void F(mostly_small)(void)
{
    F(requests)(true);
}
#endif

static void F(one_by_one)(void)
{
    arm_begin(sizeof(struct node));
    void **objects = (void **)must(malloc(sizes.appends * sizeof(void *)));
    double best = 0;
    for (int round = 0; round < 4; round++) {
        look();
        double start = now();
        for (size_t i = 0; i < sizes.appends; i++) {
            struct node *node = (struct node *)must(arm_node(sizeof(struct node)));
            node->key = i;
            objects[i] = node;
        }
        if (ARM_RESETS)
            arm_reset();
        for (size_t i = 0; !ARM_RESETS && i < sizes.appends; i++)
            arm_free(objects[i], sizeof(struct node));
        double spent = now() - start;
        if (round < 2 || spent < best)
            best = spent;
    }
    put("ms", best * 1e3);
    free(objects);
    arm_end();
}

static void F(small)(void)
{
    double best = 0;
    arm_begin(16);
    for (int round = 0; round < 3; round++) { /* the first warms up */
        look();
        double start = now();
        F(release)(F(chain)(sizes.small, 16), 16);
        double spent = now() - start;
        if (round < 2 || spent < best)
            best = spent;
    }
    put("ms", best * 1e3);
    arm_end();
}

static void F(resident)(void)
{
    arm_begin(16);
    size_t count = sizes.small / 3;
    double before = anonymous_mib();
    struct F(link) *list = F(chain)(count, 16);
    put("bytes", (anonymous_mib() - before) * 1048576 / (double)count);
    F(release)(list, 16);
    arm_end();
}

static void F(left)(void)
{
    arm_begin(64);
    double before = anonymous_mib(), peak = 0;
    for (int round = 0; round < 3; round++) {
        struct F(link) *list = F(chain)(sizes.objects, 64);
        peak = anonymous_mib() - before;
        F(release)(list, 64);
    }
    arm_rest();
    put("peak_mib", peak);
    put("left_mib", anonymous_mib() - before);
    arm_end();
}

static struct node *F(list)(size_t count)
{
    struct node *list = NULL;
    for (size_t i = 0; i < count; i++) {
        struct node *node = (struct node *)must(arm_node(sizeof(struct node)));
        node->next = list;
        node->key = i;
        node->value = i;
        list = node;
    }
    return list;
}

static double F(traverse)(const struct node *list, size_t count)
{
    uint64_t sum = 0;
    double start = now();
    for (const struct node *node = list; node; node = node->next)
        sum += node->key;
    double spent = now() - start;
    sink = sum;
    return spent * 1e9 / (double)count;
}

static void F(nodes)(void)
{
    double made = 0, released = 0, visited = 0, per = 1e9 / (double)sizes.nodes;
    arm_begin(sizeof(struct node));
    for (int round = 0; round < 3; round++) {
        look();
        double start = now();
        struct node *list = F(list)(sizes.nodes);
        double listed = now() - start;
        double visit = F(traverse)(list, sizes.nodes);
        start = now();
        F(release)((struct F(link) *)list, sizeof(struct node));
        double freed = now() - start;
        if (round < 2 || listed + freed < made + released) {
            made = listed;
            released = freed;
            visited = visit;
        }
    }
    put("alloc_ns", made * per);
    put("release_ns", released * per);
    put("both_ns", (made + released) * per);
    put("traverse_ns", visited);
    arm_end();
}

/* The heap has a past: twice as many nodes, half of them freed in no order. */
static void F(interleaved)(void)
{
    size_t count = sizes.nodes / 4, all = 2 * count;
    void **past = (void **)must(malloc(all * sizeof(void *)));
    uint64_t random = 42;
    for (size_t i = 0; i < all; i++)
        *(uint64_t *)(past[i] = must(malloc(sizeof(struct node)))) = i;
    for (size_t i = all - 1; i > 0; i--) {
        size_t other = next_random(&random, i + 1);
        void *swapped = past[i];
        past[i] = past[other];
        past[other] = swapped;
    }
    for (size_t i = 0; i < count; i++)
        free(past[i]);
    arm_begin(sizeof(struct node));
    struct node *list = F(list)(count);
    put("traverse_ns", F(traverse)(list, count));
    F(release)((struct F(link) *)list, sizeof(struct node));
    arm_end();
    for (size_t i = count; i < all; i++)
        free(past[i]);
    free(past);
}

#if ARM_FREES
static void F(churn)(void)
{
    arm_begin(sizeof(struct node));
    struct node **cells = (struct node **)must(malloc(sizes.live * sizeof(struct node *)));
    memset(cells, 1, sizes.live * sizeof(struct node *)); /* resident before it counts */
    double before = anonymous_mib();
    for (size_t i = 0; i < sizes.live; i++) {
        cells[i] = (struct node *)must(arm_node(sizeof(struct node)));
        cells[i]->key = i;
    }
    put("bytes", (anonymous_mib() - before) * 1048576 / (double)sizes.live);
    uint64_t random = 7;
    look();
    double start = now();
    for (size_t turn = 0; turn < sizes.turns; turn++) {
        struct node **cell = &cells[next_random(&random, sizes.live)];
        arm_free(*cell, sizeof(struct node));
        *cell = (struct node *)must(arm_node(sizeof(struct node)));
        (*cell)->key = turn;
    }
    put("ns", (now() - start) * 1e9 / (double)sizes.turns);
    for (size_t i = 0; i < sizes.live; i++)
        arm_free(cells[i], sizeof(struct node));
    free(cells);
    arm_end();
}
#endif

static const struct row F(rows)[] = {
#ifndef NODES_ONLY
    {"mixed", F(mixed)},
    {"mostly_small", F(mostly_small)},
#endif
    {"one_by_one", F(one_by_one)},
    {"small", F(small)},
    {"resident", F(resident)},
    {"left", F(left)},
    {"nodes", F(nodes)},
    {"interleaved", F(interleaved)},
#if ARM_FREES
    {"churn", F(churn)},
#endif
#ifdef MORE_ROWS
    MORE_ROWS
#endif
    {NULL, NULL},
};

#undef JOIN2
#undef JOIN
#undef F
#undef ARM
#undef ARM_RESETS
#undef ARM_FREES
#undef NODES_ONLY
#undef MORE_ROWS
#undef arm_begin
#undef arm_end
#undef arm_alloc
#undef arm_node
#undef arm_reset
#undef arm_free
#undef arm_rest
