import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { goQuote } from '../../../../src/base/index.ts';
import { refusalOf, wordsOf } from '../../../../src/controller/backup/refusals.ts';
import { refusalError } from '../../../../src/kube/errors.ts';

const call = 'PUT /apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachineinstances/box/backup';
const ofCommand = (words: string) => `server error. command Backup failed: ${goQuote(words)}`;

describe('what people are told of a refused order', () => {
  for (const [title, message, told] of [
    ['the launcher’s words', `${call}: ${ofCommand('make "another"\nbackup')}`, 'make "another" backup'],
    ['without the step', `startBackup: ${call}: ${ofCommand('a: b')}`, 'a: b'],
    [
      'without the words of virt-api',
      `${call}: Internal error occurred: unexpected return code 400 (400 Bad Request), message: ${ofCommand('no')}`,
      'no',
    ],
    ['an agent’s own word', `${call}: BackupOptions.cmd is no text`, 'BackupOptions.cmd is no text'],
    [
      'words that are cut',
      `${call}: server error. command Backup failed: "cu`,
      'server error. command Backup failed: "cu',
    ],
    ['no words at all', `${call}: ${ofCommand('')}`, ofCommand('')],
    ['what is no order', 'markGuest: PATCH /apis/kubevirt.io/v1/x: no', 'markGuest: PATCH /apis/kubevirt.io/v1/x: no'],
  ] as const) {
    test(title, () => assert.equal(wordsOf(message), told));
  }
});

describe('what a refusal proves', () => {
  const refused = (text: string, httpStatus = 400) =>
    refusalOf(refusalError(httpStatus, { kind: 'Status', apiVersion: 'v1', message: text }, call));
  for (const [text, proves] of [
    [ofCommand('backup b is not under way: there is nothing to abort'), 'nothing-under-way'],
    [ofCommand('failed to abort backup: could not find ongoing backup'), 'nothing-under-way'],
    [ofCommand('failed to abort backup: requested backup differs from ongoing one'), 'nothing-under-way'],
    [ofCommand('failed to abort backup: backup already completed'), 'nothing-under-way'],
    [ofCommand('failed to abort backup: backup did not start yet'), 'not-begun'],
    [ofCommand('backup b cannot be aborted at this moment: try again'), 'not-begun'],
    [ofCommand('remove it, or give the backup another name'), 'not-begun'],
    [
      ofCommand('backup b: libvirt does not say whether it begins: the status tells, or the same order again'),
      'unknown',
    ],
    ['unknown error encountered sending command Backup: rpc error: code = DeadlineExceeded desc = x', 'unknown'],
    ['rpc error: code = Canceled desc = x', 'unknown'],
  ] as const) {
    test(`${text}: ${proves}`, () => assert.equal(refused(text), proves));
  }

  test('another status is none, nor another error', () => {
    assert.equal(refused('there is nothing to abort', 503), undefined);
    assert.equal(refusalOf(new Error('there is nothing to abort')), undefined);
  });
});
