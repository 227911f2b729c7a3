import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { test } from 'node:test';
import { PageAccess } from '../../../src/web/access.ts';
import { FakeClock } from '../../fixtures/fake-clock.ts';

function request(headers: Record<string, string>, url = '/api/vms', method = 'GET'): IncomingMessage {
  return { method, url, headers: { host: '127.0.0.1:80', ...headers } } as unknown as IncomingMessage;
}

const withSecret = (text: string) => request({ authorization: `Bearer ${text}` });

function statusOf(access: PageAccess, asked: IncomingMessage): number | string {
  const authorization = access.authorize(asked);
  return authorization.kind === 'refused' ? authorization.httpStatus : authorization.by;
}

test('wrong tokens are limited to 30 a minute; the right one and its sessions are let in all the time', () => {
  const clock = new FakeClock();
  const access = new PageAccess(clock);
  const { key } = access.newSession('act');
  for (let turn = 0; turn < 30; turn++) assert.equal(statusOf(access, withSecret(`wrong${turn}`)), 401);
  assert.equal(statusOf(access, withSecret('wrong')), 429);
  assert.equal(statusOf(access, withSecret(`${key}x`)), 429);
  assert.equal(statusOf(access, withSecret(access.token)), 'token');
  assert.equal(statusOf(access, withSecret(key)), 'session');
  assert.equal(statusOf(access, request({})), 401, 'no token is no wrong one');
  clock.advance(61_000);
  assert.equal(statusOf(access, withSecret('wrong')), 401);
});

test('a session ends after a day, and whoever comes with it again does not guess', () => {
  const clock = new FakeClock();
  const access = new PageAccess(clock);
  const { key, lastsMs } = access.newSession('act');
  clock.advance(lastsMs - 1);
  assert.deepEqual(access.authorize(withSecret(key)), { kind: 'in', by: 'session', right: 'act', endsInMs: 1 });
  clock.advance(1);
  for (let turn = 0; turn < 40; turn++) assert.equal(statusOf(access, withSecret(key)), 401);
  assert.equal(statusOf(access, withSecret('wrong')), 401, 'a guess, and the first one');
});

test('a key with another time in it is none', () => {
  const access = new PageAccess(new FakeClock());
  const [until = '', mac] = access.newSession('act').key.split('.');
  for (const forged of [
    `${Number(until) + 1}.${mac}`,
    `0${until}.${mac}`,
    `${until}.`,
    `${until}`,
    `.${mac}`,
    `${until}.${mac}.`,
  ])
    assert.equal(statusOf(access, withSecret(forged)), 401, forged);
});

test('token, sessions and host name are those of one start', () => {
  const clock = new FakeClock();
  const starts = Array.from({ length: 20 }, () => new PageAccess(clock));
  assert.equal(new Set(starts.map(({ token }) => token)).size, 20);
  assert.equal(new Set(starts.map(({ hostName }) => hostName)).size, 20);
  const [before, now] = starts as [PageAccess, PageAccess];
  assert.match(before.token, /^[\w-]{32}$/);
  assert.equal(statusOf(now, withSecret(before.token)), 401);
  assert.equal(statusOf(now, withSecret(before.newSession('act').key)), 401);
  assert.equal(statusOf(now, request({ host: before.hostName, authorization: `Bearer ${now.token}` })), 403);
});
