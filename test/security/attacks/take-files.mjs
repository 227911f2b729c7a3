// Tries everything that one can do to a file, a directory or a socket, on each path of the input, and on all that
// is found below it. Prints what worked: [{ act, path }]. What was changed is put back where that can be done.
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';

const { paths, abstractSockets = [], below = true, reads = true, changes = true } = JSON.parse(process.env.ATTACK);
const maxTries = 50_000;
const worked = [];
const seen = new Set();
const sockets = [];
let tries = 0;

function attempt(act, where, work) {
  tries++;
  try {
    work();
    worked.push({ act, path: where });
    return true;
  } catch {
    return false;
  }
}

function takeFile(file) {
  if (reads) {
    attempt('read', file, () => {
      const fd = fs.openSync(file, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK);
      fs.closeSync(fd);
    });
  }
  attempt('write', file, () => fs.closeSync(fs.openSync(file, fs.constants.O_WRONLY | fs.constants.O_NONBLOCK)));
}

function takeDirectory(dir) {
  if (!changes) attempt('write to', dir, () => fs.accessSync(dir, fs.constants.W_OK));
  const planted = path.join(dir, `.planted-${process.pid}`);
  const isMade = changes && attempt('create in', dir, () => fs.closeSync(fs.openSync(planted, 'wx')));
  if (isMade) attempt('unlink in', dir, () => fs.unlinkSync(planted));
  let names = [];
  const isListed = attempt('list', dir, () => {
    names = fs.readdirSync(dir);
  });
  if (isListed && !reads) worked.pop();
  if (below) for (const name of names) take(path.join(dir, name));
}

function takeName(file) {
  if (!changes) return;
  const moved = `${file}.moved-${process.pid}`;
  if (attempt('rename', file, () => fs.renameSync(file, moved))) fs.renameSync(moved, file);
  // Only where a rename was refused: a wrong right to unlink is then the only one.
  else attempt('unlink', file, () => fs.unlinkSync(file));
  attempt('change the mode of', file, () => fs.chmodSync(file, fs.lstatSync(file).mode & 0o7777));
}

function take(file) {
  if (seen.has(file) || tries > maxTries) return;
  seen.add(file);
  let stats;
  try {
    stats = fs.lstatSync(file);
  } catch {
    // Unknown to this user; it is tried all the same.
  }
  if (stats?.isSymbolicLink()) return;
  if (stats === undefined || stats.isSocket()) sockets.push(file);
  if (stats === undefined || !stats.isDirectory()) takeFile(file);
  if (stats === undefined || stats.isDirectory()) takeDirectory(file);
  takeName(file);
}

function connect(address, shown) {
  tries++;
  return new Promise((resolve) => {
    const socket = net.connect({ path: address });
    socket.setTimeout(2_000, () => socket.destroy(new Error('no answer')));
    socket.once('connect', () => {
      worked.push({ act: 'connect to', path: shown });
      socket.destroy();
      resolve();
    });
    socket.once('error', () => resolve());
  });
}

for (const file of paths) take(file);
for (const file of sockets) await connect(file, file);
for (const name of abstractSockets) await connect(`\0${name}`, `@${name}`);
console.log(JSON.stringify({ worked, tries }));
