// Holds as many connections to each port as it gets, for some seconds: silent ones, half requests, half handshakes, garbage,
// headers without an end, upgrades in a row. What is closed is opened again. Prints what became of them.
import { connect } from 'node:net';
import { connect as connectTls } from 'node:tls';

const { ports, many, seconds } = JSON.parse(process.env.ATTACK);
const upgrade =
  'GET /v1/namespaces/a/virtualmachineinstances/b/console HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n';
const shapes = {
  silent: '',
  half: 'GET /api/vms HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ',
  handshake: Buffer.from('16030100f8010000f40303', 'hex'),
  garbage: Buffer.alloc(65_536, 0xff),
  headers: `GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n${'X-Long: y\r\n'.repeat(20_000)}`,
  upgrades: upgrade.repeat(50),
};
const kinds = [...Object.keys(shapes), 'silent', 'silent', 'half', 'tls', 'tlsUpgrades'];
const reported = Object.fromEntries(ports.map((port) => [port, { opened: 0, ended: 0, refused: 0 }]));
const open = new Set();
let isOver = false;

function hold(port, kind) {
  if (isOver) return;
  const isTls = kind.startsWith('tls');
  const to = { host: '127.0.0.1', port };
  const socket = isTls ? connectTls({ ...to, rejectUnauthorized: false }) : connect(to);
  open.add(socket);
  socket.on('connect', () => {
    reported[port].opened++;
    if (!isTls) socket.write(shapes[kind]);
  });
  socket.on('secureConnect', () => kind === 'tlsUpgrades' && socket.write(shapes.upgrades));
  socket.on('error', (error) => {
    if (error.code === 'ECONNREFUSED') reported[port].refused++;
  });
  socket.on('data', () => undefined);
  socket.on('close', () => {
    open.delete(socket);
    reported[port].ended++;
    setTimeout(hold, 250, port, kind);
  });
}

for (const port of ports) for (let at = 0; at < many; at++) hold(port, kinds[at % kinds.length]);
const drip = setInterval(() => {
  for (const socket of open) if (socket.writable && !socket.connecting) socket.write('z');
}, 1_000);
setTimeout(() => {
  isOver = true;
  clearInterval(drip);
  for (const socket of open) socket.destroy();
  console.log(JSON.stringify(reported));
}, seconds * 1_000);
