import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { test } from 'node:test';
import { Access } from '../../../src/web/access.ts';
import { newWebToken } from '../../../src/web/index.ts';
import { FakeClock } from '../../fixtures/fake-clock.ts';

const token = newWebToken();

function request(headers: Record<string, string>, url = '/api/vms', method = 'GET'): IncomingMessage {
  return { method, url, headers: { host: '127.0.0.1:80', ...headers } } as unknown as IncomingMessage;
}

const withToken = (text: string) => request({ authorization: `Bearer ${text}` });

function statusOf(access: Access, asked: IncomingMessage): number | string {
  const verdict = access.judge(asked, 80);
  return verdict.kind === 'refused' ? verdict.httpStatus : verdict.kind;
}

test('wrong tokens are limited to 30 a minute; the right one is let in all the time', () => {
  const clock = new FakeClock();
  const access = new Access(token, clock);
  for (let turn = 0; turn < 30; turn++)
    assert.equal(statusOf(access, withToken(`wrong ${turn}`.replace(' ', ''))), 401);
  assert.equal(statusOf(access, withToken('wrong')), 429);
  assert.equal(statusOf(access, request({}, '/?token=wrong')), 429);
  assert.equal(statusOf(access, request({ cookie: 'virt-web-80=wrong' })), 429);
  assert.equal(statusOf(access, withToken(token)), 'in');
  assert.equal(statusOf(access, request({}, `/?token=${token}`)), 'enter');
  assert.equal(statusOf(access, request({})), 401, 'no token is no wrong one');
  clock.advance(61_000);
  assert.equal(statusOf(access, withToken('wrong')), 401);
});

test('a cookie is good for the port and the token that it was made for', () => {
  const access = new Access(token, new FakeClock());
  const [cookie = ''] = access.setCookie(80).split(';');
  assert.equal(statusOf(access, request({ cookie: `other=1; ${cookie}` })), 'in');
  assert.equal(access.judge(request({ cookie }), 81).kind, 'refused');
  assert.equal(statusOf(new Access(newWebToken(), new FakeClock()), request({ cookie })), 401);
  assert.equal(statusOf(new Access(token, new FakeClock()), request({ cookie })), 'in', 'also after a restart');
});

test('tokens are long and differ', () => {
  const tokens = new Set(Array.from({ length: 100 }, newWebToken));
  assert.equal(tokens.size, 100);
  for (const text of tokens) assert.match(text, /^[\w-]{32}$/);
});
