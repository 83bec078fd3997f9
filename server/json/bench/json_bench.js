// V8's half of json_bench: does what it is told on standard input, a line at a time, in the breaks
// of the other arms. "parse N TURNS" and "stringify N TURNS" work on the Nth of the files named as
// arguments and answer with the nanoseconds that it took.
'use strict';
const fs = require('fs');

const texts = process.argv.slice(2).map((name) => fs.readFileSync(name, 'utf8'));
const trees = texts.map((text) => JSON.parse(text));
const work = {
  parse: (i) => JSON.parse(texts[i]),
  stringify: (i) => JSON.stringify(trees[i]),
};
process.stdout.write(`${process.version}\n`);
let kept; // so that no turn's result is known to be unused

require('readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const [name, index, turns] = line.split(' ');
  const start = process.cpuUsage();
  for (let i = 0; i < turns; i++) kept = work[name](index);
  const { user, system } = process.cpuUsage(start);
  process.stdout.write(`${(user + system) * 1000}\n`);
});
