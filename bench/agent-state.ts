import { request } from 'node:http';
import { type AgentState, explainSocketName } from '../src/api/index.ts';

/** What the agent tells about itself on its own socket. */
export function readAgentState(privateDir: string): Promise<AgentState> {
  return new Promise((resolve, reject) => {
    const asked = request(
      { socketPath: `${privateDir}/${explainSocketName}`, path: '/state', agent: false },
      (answer) => {
        const chunks: Buffer[] = [];
        answer.on('data', (chunk: Buffer) => chunks.push(chunk));
        answer.on('error', reject);
        answer.on('end', () => {
          const text = Buffer.concat(chunks).toString('utf8');
          if (answer.statusCode === 200) resolve(JSON.parse(text));
          else reject(new Error(`GET /state: ${answer.statusCode} ${text.slice(0, 200)}`));
        });
      },
    );
    asked.on('error', reject);
    asked.end();
  });
}
