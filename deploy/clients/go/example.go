// An app in Go that writes, reads and follows records over the socket of agentd. It needs the standard library only.
//
//	go run example.go write ENTITY ID DATA KEY    stores the fields of DATA (JSON) in a record
//	go run example.go read ENTITY ID              prints the record
//	go run example.go follow FILE                 prints the changes of records, for ever
//
// AGENTD_SOCKET is the path of the socket. While the agent is away or busy, a request is repeated for DEADLINE seconds (30).
// Exit status: 0 done, 1 the agent refused it, 2 the agent cannot be reached, 64 wrong usage.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// refusal is an answer with an error status.
type refusal struct {
	status int
	body   string
}

func (r refusal) Error() string { return fmt.Sprintf("the agent answered %d: %s", r.status, r.body) }

// isTransient reports that another try may help. After a broken answer the request may have been stored or not.
func isTransient(err error) bool {
	var no refusal
	if errors.As(err, &no) {
		return no.status == 408 || no.status == 429 || no.status == 500 || no.status == 503
	}
	return !errors.Is(err, syscall.EACCES)
}

var client = http.Client{Transport: &http.Transport{
	DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", setting("AGENTD_SOCKET", "/run/agentd/agent.sock"))
	},
	// Each request opens a new connection, so that no request meets a connection that a restart has closed.
	DisableKeepAlives: true,
}}

func setting(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

func backoff() {
	time.Sleep(100*time.Millisecond + time.Duration(rand.Int63n(int64(400*time.Millisecond))))
}

// send makes one request. The caller closes the body of the answer.
func send(ctx context.Context, method, path string, headers map[string]string, body string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://agent"+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	answer, err := client.Do(request)
	if err != nil || answer.StatusCode < 300 {
		return answer, err
	}
	defer answer.Body.Close()
	words, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	return nil, refusal{answer.StatusCode, string(words)}
}

// ask makes one request and reads its whole answer. It repeats both while the agent is away or busy.
func ask(method, path string, headers map[string]string, body string) ([]byte, error) {
	seconds, err := strconv.Atoi(setting("DEADLINE", "30"))
	if err != nil {
		return nil, fmt.Errorf("DEADLINE is not a number: %w", err)
	}
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	for {
		whole, err := askOnce(method, path, headers, body)
		if err == nil || !isTransient(err) || time.Now().After(end) {
			return whole, err
		}
		backoff()
	}
}

func askOnce(method, path string, headers map[string]string, body string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	answer, err := send(ctx, method, path, headers, body)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	return io.ReadAll(io.LimitReader(answer.Body, 16<<20))
}

// write stores the data. The key makes the repeats one change, also those of a later run of this program.
func write(entity, id, data, key string) error {
	body := fmt.Sprintf(`{"entity":"%s","record_id":"%s","action":"upsert","data":%s}`, entity, id, data)
	headers := map[string]string{"Content-Type": "application/json", "Idempotency-Key": key}
	answer, err := ask("POST", "/v1/mutations", headers, body)
	if err != nil {
		return err
	}
	var receipt struct{ ID string }
	if err := json.Unmarshal(answer, &receipt); err != nil {
		return fmt.Errorf("the answer is not what it must be: %w", err)
	}
	fmt.Println(receipt.ID)
	return nil
}

// read prints a record as it came: a float64 would round whole numbers beyond 2^53.
func read(entity, id string) error {
	answer, err := ask("GET", "/v1/records/"+entity+"/"+id, nil, "")
	if err == nil {
		fmt.Println(string(answer))
	}
	return err
}

// follow handles each event first and stores its position then. The next connection, or the next run, continues after it.
func follow(file string) error {
	for {
		err := followOnce(file)
		if !isTransient(err) {
			return err
		}
		fmt.Fprintln(os.Stderr, "example: the feed broke and goes on:", err)
		backoff()
	}
}

func followOnce(file string) error {
	position, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// The agent writes at least every 15 seconds. After three times that, the connection is dead.
	silence := time.AfterFunc(45*time.Second, cancel)
	defer silence.Stop()
	headers := map[string]string{"Last-Event-ID": strings.TrimSpace(string(position))}
	answer, err := send(ctx, "GET", "/v1/events?types=record", headers, "")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	var id, kind, data string
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		silence.Reset(45 * time.Second)
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "id":
			id = value
		case "event":
			kind = value
		case "data":
			data = value
		case "":
			// "reset": what lies before is not kept any more, so the app must read its records again.
			if data != "" {
				fmt.Println(id, kind, data)
			}
			if id != "" {
				if err := os.WriteFile(file+".new", []byte(id), 0o600); err != nil {
					return err
				}
				if err := os.Rename(file+".new", file); err != nil {
					return err
				}
			}
			id, kind, data = "", "", ""
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return errors.New("the agent ended it")
}

func main() {
	words := append(os.Args[1:], "")
	var err error
	switch count := len(os.Args) - 1; {
	case words[0] == "write" && count == 5:
		err = write(words[1], words[2], words[3], words[4])
	case words[0] == "read" && count == 3:
		err = read(words[1], words[2])
	case words[0] == "follow" && count == 2:
		err = follow(words[1])
	default:
		fmt.Fprintln(os.Stderr, "usage: example write ENTITY ID DATA KEY | read ENTITY ID | follow FILE")
		os.Exit(64)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "example:", err)
		var no refusal
		if errors.As(err, &no) && !isTransient(err) {
			os.Exit(1)
		}
		os.Exit(2)
	}
}
