import assert from 'node:assert/strict';
import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { test } from 'node:test';
import { chooseProtocol, upgradeProblem } from '../../../src/console/handshake.ts';

const good = {
  upgrade: 'websocket',
  connection: 'Upgrade',
  'sec-websocket-version': '13',
  'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
};

function statusOf(headers: Record<string, string | undefined>, method = 'GET'): number | undefined {
  const request = new IncomingMessage(new Socket());
  request.method = method;
  for (const [name, value] of Object.entries({ ...good, ...headers })) {
    if (value !== undefined) request.headers[name] = value;
  }
  return upgradeProblem(request)?.httpStatus;
}

test('a good upgrade has no problem, with and without subprotocols', () => {
  assert.equal(statusOf({}), undefined);
  assert.equal(statusOf({ upgrade: 'WebSocket' }), undefined);
  assert.equal(statusOf({ 'sec-websocket-protocol': 'plain.kubevirt.io, session.virt-handler.io' }), undefined);
});

test('an upgrade that the library would stumble over is found before anything is done for it', () => {
  const cases: [Record<string, string | undefined>, number][] = [
    [{ upgrade: undefined }, 426],
    [{ upgrade: 'h2c' }, 426],
    [{ upgrade: 'websocket, websocket' }, 426],
    [{ 'sec-websocket-version': undefined }, 426],
    [{ 'sec-websocket-version': '8' }, 426],
    [{ 'sec-websocket-version': '13, 13' }, 426],
    [{ 'sec-websocket-key': undefined }, 400],
    [{ 'sec-websocket-key': 'short' }, 400],
    [{ 'sec-websocket-key': `${good['sec-websocket-key']}, ${good['sec-websocket-key']}` }, 400],
    [{ 'sec-websocket-protocol': '' }, 400],
    [{ 'sec-websocket-protocol': 'a,,b' }, 400],
    [{ 'sec-websocket-protocol': 'a b' }, 400],
    [{ 'sec-websocket-protocol': 'plain.kubevirt.io, plain.kubevirt.io' }, 400],
    [{ 'sec-websocket-protocol': '\u0000' }, 400],
  ];
  for (const [headers, status] of cases) assert.equal(statusOf(headers), status, JSON.stringify(headers));
  assert.equal(statusOf({}, 'POST'), 405);
});

test('our protocol is chosen before the plain one, and none when neither is offered', () => {
  assert.equal(chooseProtocol(new Set(['plain.kubevirt.io', 'session.virt-handler.io'])), 'session.virt-handler.io');
  assert.equal(chooseProtocol(new Set(['other', 'plain.kubevirt.io'])), 'plain.kubevirt.io');
  assert.equal(chooseProtocol(new Set(['binary'])), false);
});
