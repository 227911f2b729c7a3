// Asks each port for each path, in plain HTTP and over TLS, with the certificate it was given or with none; prints the statuses.
import { request } from 'node:http';
import { request as requestTls } from 'node:https';

const { ports, paths, headers = {}, cert, key } = JSON.parse(process.env.ATTACK);

function ask(send, port, path, more) {
  return new Promise((resolve) => {
    const asked = send({ host: '127.0.0.1', port, path, headers, agent: false, timeout: 5_000, ...more });
    asked.on('error', (error) => resolve({ error: error.code ?? error.message }));
    asked.on('timeout', () => asked.destroy(new Error('silence')));
    asked.on('upgrade', (answer, socket) => {
      socket.destroy();
      resolve({ status: answer.statusCode });
    });
    asked.on('response', (answer) => {
      let body = '';
      answer.setEncoding('utf8').on('data', (chunk) => {
        body += chunk;
      });
      answer.on('error', () => undefined);
      answer.on('close', () => resolve({ status: answer.statusCode, body: body.slice(0, 200) }));
    });
    asked.end();
  });
}

const answers = [];
for (const port of ports) {
  for (const path of paths) {
    answers.push({ port, path, tls: false, ...(await ask(request, port, path, {})) });
    const more = { rejectUnauthorized: false, ...(cert && { cert, key }) };
    answers.push({ port, path, tls: true, ...(await ask(requestTls, port, path, more)) });
  }
}
console.log(JSON.stringify(answers));
