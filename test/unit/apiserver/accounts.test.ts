import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { describe, test } from 'node:test';
import { isAllowed, rulesOf, type UserAccount } from '../../../src/apiserver/access.ts';
import { TokenAuthenticator } from '../../../src/apiserver/rest/index.ts';
import { userRules } from '../../../src/standalone/supervisor/user-rules.ts';
import { FakeClock } from '../../fixtures/fake-clock.ts';

const adminToken = 'token-of-the-administrator';
const token = 'token-of-anna-0123456789';
const digestOf = (text: string) => createHash('sha256').update(text).digest('hex');
const rules = [{ apiGroups: [''], resources: ['pods'], verbs: ['get'], namespaces: ['a'] }];
const anna: UserAccount = { user: 'anna', digest: digestOf(token), rules };

function authenticator() {
  const clock = new FakeClock();
  return { clock, known: new TokenAuthenticator([{ token: adminToken, user: 'admin' }], clock) };
}

describe('accounts', () => {
  test('let in by their tokens, and no more once they are gone', () => {
    const { known } = authenticator();
    known.setAccounts([anna]);
    assert.deepEqual(known.userOf(token), { name: 'anna', groups: ['system:authenticated'], rules });
    assert.equal(known.userNamed('anna')?.name, 'anna');
    known.setAccounts([]);
    assert.equal(known.userOf(token), undefined);
    assert.equal(known.userNamed('anna'), undefined);
    assert.equal(known.userOf(adminToken)?.name, 'admin');
  });

  test('what is open ends with the account, or when it becomes another one, and not when others change', () => {
    const { known } = authenticator();
    known.setAccounts([anna]);
    const ended: string[] = [];
    const user = known.userOf(token);
    assert.ok(user);
    known.follow(user, () => ended.push('one'));
    const forget = known.follow(user, () => ended.push('forgotten'));
    forget();
    known.setAccounts([{ ...anna }, { user: 'bert', digest: digestOf('of bert'), rules: [] }]);
    assert.deepEqual(ended, []);
    known.setAccounts([{ ...anna, rules: [] }]);
    assert.deepEqual(ended, ['one']);
    assert.deepEqual(known.userOf(token)?.rules, []);
  });

  test('a token is over at its time, with all that is open, also weeks later', () => {
    const { known, clock } = authenticator();
    const days = 40;
    known.setAccounts([{ ...anna, expiresAtMs: clock.now().getTime() + days * 86_400_000 }]);
    const user = known.userOf(token);
    assert.ok(user);
    let ended = 0;
    known.follow(user, () => ended++);
    clock.advance(days * 86_400_000 - 1);
    assert.equal(ended, 0);
    assert.ok(known.userOf(token));
    clock.advance(1);
    assert.equal(ended, 1);
    assert.equal(known.userOf(token), undefined);
    assert.equal(known.userNamed('anna'), undefined);
    assert.equal(clock.timers, 0);
  });

  test('nothing of the start can be taken over: neither name nor token', () => {
    const { known } = authenticator();
    known.setAccounts([
      { user: 'admin', digest: digestOf('another token of admin'), rules: [] },
      { user: 'eve', digest: digestOf(adminToken), rules: [] },
      { user: 'torn', digest: 'abc', rules: [] },
    ]);
    assert.equal(known.userOf('another token of admin'), undefined);
    assert.equal(known.userOf(adminToken)?.rules, undefined);
    assert.equal(known.userNamed('eve'), undefined);
    assert.equal(known.userNamed('torn'), undefined);
  });

  test('who is of the start is not followed: nothing ends', () => {
    const { known, clock } = authenticator();
    const admin = known.userOf(adminToken);
    assert.ok(admin);
    let ended = 0;
    known.follow(admin, () => ended++);
    known.setAccounts([anna]);
    known.setAccounts([]);
    assert.deepEqual([ended, clock.timers], [0, 0]);
  });
});

describe('a rule with namespaces', () => {
  const user = { name: 'anna', groups: [], rules };
  const may = (namespace: string | undefined) =>
    isAllowed(user, { verb: 'get', group: '', resource: 'pods', subresource: undefined, namespace });

  test('holds there alone: neither elsewhere, nor for all namespaces, nor at the cluster scope', () => {
    assert.deepEqual([may('a'), may('b'), may(''), may(undefined), may('A')], [true, false, false, false, false]);
  });

  test('is among the rules of that namespace', () => {
    assert.equal(
      rulesOf(user, 'a').some(({ resources }) => resources.includes('pods')),
      true,
    );
    assert.equal(
      rulesOf(user, 'b').some(({ resources }) => resources.includes('pods')),
      false,
    );
  });
});

describe('rights of an ordinary user', () => {
  const group = 'subresources.kubevirt.io';
  const questions: [verb: string, group: string, resource: string, subresource?: string][] = [
    ['get', 'kubevirt.io', 'virtualmachines'],
    ['create', 'kubevirt.io', 'virtualmachines'],
    ['patch', 'kubevirt.io', 'virtualmachineinstances'],
    ['update', 'kubevirt.io', 'virtualmachineinstances', 'status'],
    ['get', group, 'virtualmachineinstances', 'console'],
    ['get', group, 'virtualmachineinstances', 'vnc'],
    ['get', group, 'virtualmachineinstances', 'vnc/screenshot'],
    ['get', group, 'virtualmachineinstances', 'portforward'],
    ['get', group, 'virtualmachineinstances', 'guestosinfo'],
    ['update', group, 'virtualmachines', 'start'],
    ['update', group, 'virtualmachineinstances', 'pause'],
    ['get', '', 'secrets'],
    ['list', '', 'secrets'],
    ['create', '', 'pods'],
    ['create', '', 'pods', 'exec'],
    ['delete', '', 'pods'],
    ['get', '', 'pods', 'log'],
    ['delete', '', 'namespaces'],
    ['patch', '', 'nodes'],
    ['update', 'kubevirt.io', 'kubevirts'],
    ['create', 'authentication.k8s.io', 'tokenreviews'],
  ];
  const asked = (rights: Parameters<typeof userRules>[0], namespace: string) => {
    const user = { name: 'u', groups: [], rules: userRules(rights) };
    return questions
      .filter(([verb, of, resource, subresource]) =>
        isAllowed(user, { verb, group: of, resource, subresource, namespace }),
      )
      .map(([verb, , resource, subresource]) => `${verb} ${[resource, subresource].filter(Boolean).join('/')}`);
  };
  const looks = ['get virtualmachines', 'get virtualmachineinstances/guestosinfo', 'get pods/log'];
  const edits = [
    ...['get virtualmachines', 'create virtualmachines', 'patch virtualmachineinstances'],
    ...['console', 'vnc', 'vnc/screenshot', 'portforward', 'guestosinfo'].map(
      (name) => `get virtualmachineinstances/${name}`,
    ),
    ...['update virtualmachines/start', 'update virtualmachineinstances/pause'],
    ...['get secrets', 'list secrets', 'get pods/log'],
  ];

  test('who looks only may read, and use neither consoles nor secrets', () => {
    assert.deepEqual(asked({ readOnly: true }, 'any'), looks);
  });

  test('who edits may use VMs, and make no pods, change no node and no settings', () => {
    assert.deepEqual(asked({ readOnly: false }, 'any'), edits);
  });

  test('in all namespaces but those of the node itself, where is only looked', () => {
    for (const namespace of ['kubevirt', 'kube-system']) assert.deepEqual(asked({ readOnly: false }, namespace), looks);
    // A list of all namespaces would have theirs in it; a deletion, too.
    assert.deepEqual(asked({ readOnly: false }, ''), looks);
  });

  test('in one namespace only', () => {
    assert.deepEqual(asked({ readOnly: false, namespace: 'a' }, 'a'), edits);
    assert.deepEqual(asked({ readOnly: false, namespace: 'a' }, 'b'), []);
    assert.deepEqual(asked({ readOnly: true, namespace: 'a' }, ''), []);
  });
});
