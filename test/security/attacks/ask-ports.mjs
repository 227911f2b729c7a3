// Asks each port for some paths without any proof of who asks: plain HTTP, and TLS without a certificate.
// Prints [{ port, path, scheme, answer }], where answer is a status code or the end of the connection.
import http from 'node:http';
import https from 'node:https';

const { ports, paths } = JSON.parse(process.env.ATTACK);

function ask(client, scheme, port, path) {
  return new Promise((resolve) => {
    const reported = (answer) => resolve({ port, path, scheme, answer });
    const options = { host: '127.0.0.1', port, path, rejectUnauthorized: false, timeout: 5_000, agent: false };
    const request = client.get(options, (response) => {
      response.resume();
      reported(response.statusCode);
    });
    request.once('timeout', () => request.destroy(new Error('no answer')));
    request.once('error', (error) => reported(error.code ?? error.message));
  });
}

const answers = [];
for (const port of ports) {
  for (const path of paths) {
    answers.push(await ask(http, 'http', port, path));
    answers.push(await ask(https, 'https', port, path));
  }
}
console.log(JSON.stringify(answers));
