// A VNC viewer that somebody else did not ask in: prints what it was shown before it was hung up on.
import { connect } from 'node:net';

const { port } = JSON.parse(process.env.ATTACK);
let seen = '';
const socket = connect(port, '127.0.0.1');
const giveUp = setTimeout(() => socket.destroy(), 10_000);
socket.on('connect', () => socket.write('RFB 003.008\n'));
socket.on('error', () => undefined);
socket.on('data', (chunk) => {
  seen += chunk.toString('latin1');
  socket.destroy();
});
socket.on('close', () => {
  clearTimeout(giveUp);
  console.log(JSON.stringify({ seen }));
});
