// The lab's workloads on Node's own http server, without any framework: one process, as it comes.
//
//     node node.js PORT
//
// SIGUSR2 prints the number of requests answered so far, SIGTERM ends the program.
'use strict';
const http = require('node:http');

let answered = 0;

function answer(response, status, value) {
  answered += 1;
  const body = JSON.stringify(value);
  response.writeHead(status, {
    'Content-Type': 'application/json',
    'Content-Length': Buffer.byteLength(body),
  });
  response.end(body);
}

function receipt({ from, to, amount }) {
  const { street, city, state, zip } = to.address;
  return {
    from_account: `${from.firstName} ${from.lastName}`,
    to_account: `${to.firstName} ${to.lastName}`,
    to_address: `${street}, ${city}, ${state}, ${zip}`,
    created_on: new Date().toISOString(),
    amount,
  };
}

const handlers = {
  'GET /json': () => ({ message: 'Hello, World!' }),
  'POST /echo': (body) => body,
  'POST /transfer': receipt,
};

const server = http.createServer((request, response) => {
  const handler = handlers[`${request.method} ${request.url}`];
  const pieces = [];
  request.on('data', (piece) => pieces.push(piece));
  request.on('end', () => {
    if (!handler) {
      answer(response, 404, { title: 'There is no such route.' });
      return;
    }
    let value;
    try {
      value = handler(pieces.length > 0 ? JSON.parse(Buffer.concat(pieces)) : undefined);
    } catch (error) {
      answer(response, 400, { title: error.message });
      return;
    }
    answer(response, 200, value);
  });
});

server.keepAliveTimeout = 15000; // as slate's --idle-timeout
server.listen(Number(process.argv[2]), '127.0.0.1', 4096);
process.on('SIGUSR2', () => process.stderr.write(`answered ${answered}\n`));
process.on('SIGTERM', () => process.exit(0));
