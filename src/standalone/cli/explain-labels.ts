import type { ExplainLabel, ExplainLabels } from '../../api/index.ts';
import { table } from './explain-text.ts';

/** The agent's labels of the node whose keys contain `part`, for a person. Lines without their ends. */
export function explainLabels({ node, state, problem, here, notHere }: ExplainLabels, part: string): string[] {
  const asked = ({ key }: ExplainLabel) => key.includes(part);
  const [present, absent] = [here.filter(asked), notHere.filter(asked)];
  const pending = [...here, ...notHere].filter((label) => label.state === 'pending').length;
  return [
    `${stories[state](node)}: ${here.length} labels of the agent are there, ${pending} are to be changed`,
    ...(problem === undefined ? [] : [`  problem  ${problem}`]),
    '',
    ...(present.length === 0 ? [] : table(['HERE', 'VALUE', 'STATE', 'BECAUSE'], present.map(row))),
    ...(present.length > 0 && absent.length > 0 ? [''] : []),
    ...(absent.length === 0 ? [] : table(['NOT HERE', '', 'STATE', 'BECAUSE'], absent.map(row))),
    ...(present.length + absent.length === 0 ? [`no label with "${part}" in its key is known to the agent`] : []),
  ];
}

const stories: Readonly<Record<ExplainLabels['state'], (node: string) => string>> = {
  present: (node) => `node ${node}`,
  absent: (node) => `node ${node} does not exist in the cluster yet`,
  skipped: (node) => `node ${node} is left alone, its annotation node-labeller.kubevirt.io/skip-node says so`,
};

function row({ key, value = '', state, because }: ExplainLabel): string[] {
  return [key, value, state, because];
}
