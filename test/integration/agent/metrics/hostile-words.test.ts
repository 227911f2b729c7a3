import assert from 'node:assert/strict';
import { test } from 'node:test';
import { outsideText } from '../../../../src/agent/serve/metrics/outside-text.ts';
import { labelText } from '../../../../src/serving/index.ts';
import { hostileWords } from '../../../fixtures/hostile-words.ts';
import { promtool } from '../../../fixtures/promtool.ts';

test('Prometheus reads labels of any words that guests, launchers and users choose', async () => {
  const lines = hostileWords.map(
    (word, at) =>
      `x{${labelText([
        ['at', `${at}`],
        ['word', outsideText(word)],
      ])}} 1\n`,
  );
  const { code, output } = await promtool(['check', 'metrics'], `# HELP x X.\n# TYPE x gauge\n${lines.join('')}`);
  assert.equal(code, 0, output);
  assert.equal(output, '');
});
