head -c 100000 /dev/urandom > disk.img.1
head -c 50001 /dev/urandom > disk.img.2
printf 'echo one\necho two\n' > script.sh
printf 'key\t= value \r\n' > settings.ini
printf 'a\n\n\n\nb\n' > notes.txt
printf 'bert\nanna\n' > names.txt
echo head > header.txt
echo foot > footer.txt
printf 'all:\n\t@echo built\n\t@echo warning >&2\n' > Makefile
printf 'ERROR connection refused\n' > app.log
mkdir photos
echo picture > photos/1.jpg
tar -c photos | split -b 4096 - photos.tar.part
rm -r photos

$ zc-cat disk.img.1 disk.img.2 > disk.img
cat disk.img.1 disk.img.2 | cmp - disk.img

$ zc-cat -n script.sh
printf '     1\techo one\n     2\techo two\n' | cmp - "$out"

$ zc-cat -A settings.ini
test "$(cat "$out")" = 'key^I= value ^M$'

$ zc-cat -s notes.txt
printf 'a\n\nb\n' | cmp - "$out"

$ sort names.txt | zc-cat header.txt - footer.txt > page.txt
printf 'head\nanna\nbert\nfoot\n' | cmp - page.txt

$ make 2>&1 | zc-cat --timestamp=%H:%M:%S
test "$(grep -cE '^[0-9]{2}:[0-9]{2}:[0-9]{2} (built|warning)$' "$out")" = 2

$ make 2>&1 | zc-cat --timestamp-delta
test "$(grep -cE '^ +[0-9]+\.[0-9]{6} (built|warning)$' "$out")" = 2

$ zc-cat --highlight=log --color=always app.log | more
grep -q "$(printf '\033')\[[0-9;]*31mERROR" "$out"

$ zc-cat --color --highlight='timeout|refused=bold,red' app.log
printf 'ERROR connection \033[1;31mrefused\033[0m\n' | cmp - "$out"

$ zc-cat --strict photos.tar.part* | tar -x
test $status = 0
test "$(ls photos.tar.part* | wc -l)" -gt 1
test "$(cat photos/1.jpg)" = picture

$ zc-cat --explain disk.img > copy.img
cmp disk.img copy.img
test -s "$err"
