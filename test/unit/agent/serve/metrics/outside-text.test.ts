import assert from 'node:assert/strict';
import { test } from 'node:test';
import { outsideText, valueLength } from '../../../../../src/agent/serve/metrics/outside-text.ts';
import { vmLabels } from '../../../../../src/agent/serve/metrics/vm-labels.ts';
import { filesystemLines, type Lines, statsLines } from '../../../../../src/agent/serve/metrics/vm-lines.ts';
import { vmiOf } from '../../../../fixtures/agent/builders.ts';
import { domainStatsJson } from '../../../../fixtures/domain-stats.ts';
import { hostileWords } from '../../../../fixtures/hostile-words.ts';

const textOf = (lines: Lines | undefined) => [...(lines?.values() ?? [])].join('');
const samples = (text: string) => text.split('\n').filter((line) => line !== '');

test('words from outside are bounded, are UTF-8 and move no cursor', () => {
  for (const word of hostileWords) {
    const text = outsideText(word);
    assert.ok(text.length <= valueLength);
    assert.equal(text, Buffer.from(text).toString(), JSON.stringify(word.slice(0, 40)));
    // biome-ignore lint/suspicious/noControlCharactersInRegex: none may be left.
    assert.doesNotMatch(text, /[\0-\t\v-\x1f\x7f-\x9f]/);
  }
  for (const nothing of [undefined, null, 7, {}, ['a"b\n']]) assert.equal(outsideText(nothing), '');
});

test('whatever a VMI, its drives and the file systems of its guest are called, each sample stays one line', () => {
  for (const [at, word] of hostileWords.entries()) {
    const metadata = { labels: { [word]: word, app: word }, name: 'vm' };
    const labels = vmLabels(vmiOf('Running', { metadata: metadata as never, status: { nodeName: word } }));
    const net = { NameSet: true, Name: word, AliasSet: true, Alias: word, RxBytesSet: true, RxBytes: at };
    const block = { NameSet: true, Name: word, Alias: word, RdReqsSet: true, RdReqs: at };
    const stats = statsLines(domainStatsJson('d_v', { Net: [net, net], Block: [block, block] }), labels);
    const fs = { diskName: word, mountPoint: word, fileSystemType: word, totalBytes: 1, usedBytes: 1 };
    const lines = samples(textOf(stats) + textOf(filesystemLines(JSON.stringify([fs, fs]), labels)));
    const receive = lines.filter((line) => line.startsWith('kubevirt_vmi_network_receive_bytes_total{'));
    assert.equal(receive.length, 1, word.slice(0, 40));
    assert.equal(new Set(lines).size, lines.length);
    for (const line of lines)
      assert.match(line, /^kubevirt_vmi_\w+\{(\w+="(\\[\\"n]|[^\\"\n])*",?)+\} [-+.\deInfNa]+$/);
  }
});

test('two words that are one after they were put right are one series', () => {
  const fs = (mountPoint: string) => ({ diskName: 'a', mountPoint, fileSystemType: 'ext4', totalBytes: 1 });
  const list = ['\ud800', '\udc00', `${'y'.repeat(128)}1`, `${'y'.repeat(128)}2`].map(fs);
  assert.equal(samples(textOf(filesystemLines(JSON.stringify(list), 'node="n"'))).length, 2);
});
